const { topicOf } = require('./shared.js');
module.exports = (output, context) => output.includes(topicOf(context));
