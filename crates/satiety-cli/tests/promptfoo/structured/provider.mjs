export default class Bot {
  constructor(options) {
    this.config = options.config;
  }
  id() {
    return 'bot';
  }
  async callApi(prompt) {
    if (prompt === 'fail') return { error: 'no answer' };
    return {
      output: { answer: `${this.config.greeting} ${prompt}`, sources: [] },
      metadata: { calls: ['lookup'] },
      tokenUsage: { total: 3, prompt: 1, completion: 2 },
    };
  }
}
