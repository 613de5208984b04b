export const chat = async ({ vars }) => [{ role: 'user', content: `mjs ${vars.topic}` }];
