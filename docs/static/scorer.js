/* How the search orders what it finds: first the page whose title has the words that were asked for,
 * such as a finding that a tool has printed. The numbers are those of Sphinx. */
"use strict";

var Scorer = {
  score: ([, title, , , score]) => {
    const asked = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    const words = title.toLowerCase().split(" ");
    if (asked === "" || !words.some((word) => word.endsWith(asked))) return score;
    return score + (words.includes(asked) ? 100 : 50);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
