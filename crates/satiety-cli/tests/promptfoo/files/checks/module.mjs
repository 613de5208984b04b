export default async function check(output, context) {
  const found = context.config.words.filter((word) => output.includes(word));
  return found.length / context.config.words.length;
}
