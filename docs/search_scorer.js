// Guides before reference: what all words stand on, such as the API, would come first by its name.
var Scorer = {
  score: (result) => {
    const [docname, , , , score] = result;
    const last = /^(api|generated\/api\/.*|architecture|benchmarks.*|generated\/command_line|contributing)$/.test(docname);
    return last ? score - 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
