module.exports = (output) => output.replace('-', ' ');
module.exports.reverse = (output, context) => context.vars.text.split('').reverse().join('');
