module.exports = class {
  constructor({ config }) {
    this.greeting = config.greeting;
  }
  id() {
    return 'class';
  }
  async callApi(prompt, context) {
    if (context.vars.role === 'broken') throw new Error('cannot answer');
    return { output: `${this.greeting}, answer to ${prompt}`, cost: 0.5, tokenUsage: { total: 2 } };
  }
};
