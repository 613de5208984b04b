module.exports = (output, { config }) => {
  const digits = String(output).replace(/[^0-9]/g, '');
  return { pass: digits.includes(config.amount), score: digits.includes(config.amount) ? 1 : 0, reason: `looked for ${config.amount}` };
};
module.exports.currency = (output, context) => output.includes(context.config.currency);
