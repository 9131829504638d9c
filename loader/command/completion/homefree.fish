# Completion of the command homefree in fish. Commands, options and rules come from the command's own
# help, so that this file knows none of them.

function __homefree_commands
    set -l words (commandline -opc)
    $words[1] --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
    printf 'help\tdescribe a command\n'
end

function __homefree_options
    set -l words (commandline -opc)
    $words[1] $words[2] --help 2>/dev/null |
        string replace -rf '^  (?:-., )?(--[a-z-]+)\S*(?: \S+)? +(.*)' '$1\t$2'
end

function __homefree_rules
    set -l words (commandline -opc)
    $words[1] $words[2] --rules 2>/dev/null | string replace -rf '^([a-z-]+) \((.*)\)$' '$1\t$2'
    printf '%s\n' error warning note
end

# Which word is completed: the number of the words before it is the argument.
function __homefree_is_word
    test (count (commandline -opc)) -eq $argv[1]
end

# Not behind "--", where another program's words are.
function __homefree_in_options
    set -l words (commandline -opc)
    test (count $words) -ge 2; and not contains -- -- $words
    and string match -q -- '-*' (commandline -ct)
end

function __homefree_after
    set -l words (commandline -opc)
    test "$words[-1]" = "$argv[1]"
end

complete -c homefree -n '__homefree_is_word 1' -f -a '(__homefree_commands)'
complete -c homefree -n '__homefree_is_word 1' -l help -d 'list the commands'
complete -c homefree -n '__homefree_is_word 1' -l version -d 'print the version'
complete -c homefree -n '__homefree_is_word 2; and __homefree_after help' -f -a '(__homefree_commands)'
complete -c homefree -n __homefree_in_options -f -a '(__homefree_options)'
complete -c homefree -n '__homefree_after --fail-on' -f -a '(__homefree_rules)'
