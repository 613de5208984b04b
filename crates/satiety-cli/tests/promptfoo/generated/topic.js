module.exports = (name, prompt, vars) => ({ output: 'computed ' + name });
