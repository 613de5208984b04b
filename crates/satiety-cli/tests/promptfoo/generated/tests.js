module.exports = async () => [{ description: 'from JavaScript', vars: { topic: 'cats' }, assert: [{ type: 'contains', value: 'cats' }, { type: 'not-contains', value: 'py cats' }] }];
