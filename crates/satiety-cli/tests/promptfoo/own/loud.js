module.exports = class {
  constructor(options) { this.config = options.config ?? {}; }
  id() { return 'loud'; }
  async callApi(prompt) { return { output: prompt.toUpperCase() + (this.config.mark ?? '') }; }
};
