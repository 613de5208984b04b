export default class {
  id() {
    return 'object';
  }
  async callApi(prompt) {
    return { output: { text: prompt } };
  }
}
