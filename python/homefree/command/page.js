/*
 * What homefree's pages share, beside page.css: the search field, and the choice of light or dark.
 * page.py puts it into them. The page calls startTheme() and startSearch(), which call nothing else.
 */

const byId = (id) => document.getElementById(id);

// search: gets the words in lower case, each time that they change. "/" goes to the field.
function startSearch(search) {
    const box = byId("search");
    let waiting = 0;
    const look = () =>
        search(box.value.toLowerCase().split(/\s+/).filter((term) => term !== ""));
    box.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(look, 120);
    });
    document.addEventListener("keydown", (event) => {
        const typing = event.target.matches("input[type=search], select, textarea");
        if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
            event.preventDefault();
            box.focus();
        } else if (event.key === "Escape" && event.target === box && box.value !== "") {
            event.preventDefault();
            box.value = "";
            look();
        }
    });
}

// The system's choice of light or dark holds until the reader makes one. Browsers from before 2024 do
// not know light-dark(): there, the colours are written into the style each time the choice changes.
function startTheme() {
    const button = byId("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const paper = matchMedia("print");
    const style = document.querySelector("style");
    const written = style.textContent;
    const choices = /light-dark\(((?:[^(),]|\([^)]*\))+), ((?:[^(),]|\([^)]*\))+)\)/g;
    const isDark = () => (document.documentElement.dataset.theme === undefined
        ? system.matches : document.documentElement.dataset.theme === "dark");
    const tell = () => {
        button.setAttribute("aria-pressed", String(isDark()));
        if (!CSS.supports("color", "light-dark(red, red)"))
            style.textContent = written.replace(choices, isDark() && !paper.matches ? "$2" : "$1");
    };
    button.addEventListener("click", () => {
        document.documentElement.dataset.theme = isDark() ? "light" : "dark";
        tell();
    });
    system.addEventListener("change", tell);
    paper.addEventListener("change", tell);
    tell();
}
