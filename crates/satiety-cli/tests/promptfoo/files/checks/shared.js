exports.topicOf = (context) => context.vars.topic;
