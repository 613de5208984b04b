module.exports = (scores, context) => ({
  pass: scores.precision + scores.recall >= 1,
  score: (scores.precision + scores.recall) / 2,
  reason: `${context.componentResults.length} parts`,
});
