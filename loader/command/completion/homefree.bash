# Completion of the command homefree in bash. Commands, options and rules come from the command's own
# help, so that this file knows none of them.

_homefree_commands()
{
    "$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_homefree_options()
{
    "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

_homefree_rules()
{
    "$1" "$2" --rules 2>/dev/null | sed -n 's/^\([a-z-]*\) (.*/\1/p'
}

_homefree()
{
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-}
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} list='' at
    COMPREPLY=()
    for ((at = 2; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} != -- ]] || return 0 # another program's words
    done
    if ((COMP_CWORD == 1)); then
        list="$(_homefree_commands "$program") help --help --version"
    elif ((COMP_CWORD == 2)) && [[ $command == help ]]; then
        list=$(_homefree_commands "$program")
    elif [[ $before == --fail-on ]]; then
        list="$(_homefree_rules "$program" "$command") error warning note"
    elif [[ $word == -* ]]; then
        list=$(_homefree_options "$program" "$command")
    fi
    [[ -z $list ]] || mapfile -t COMPREPLY < <(compgen -W "$list" -- "$word")
}

complete -o default -F _homefree homefree
