module.exports = {
  mentionsTopic(output, { vars }) {
    const pass = output.includes(vars.topic);
    return { pass, score: pass ? 1 : 0, reason: pass ? 'mentions it' : 'does not mention it' };
  },
  broken() {
    throw new Error('broken check');
  },
};
