module.exports = ({ vars, provider }) => `js ${vars.topic} ${provider.id}`;
