module.exports = class {
  constructor(options) {
    this.options = options;
  }
  id() {
    return 'shout';
  }
  async callApi(prompt, context) {
    const output = prompt.toUpperCase() + this.options.config.mark;
    return { output, metadata: { length: output.length, seen: context.vars.x }, tokenUsage: { total: 3, prompt: 1, completion: 2 }, cost: 0.01 };
  }
};
