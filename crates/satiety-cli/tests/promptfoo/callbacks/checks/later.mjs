export default async function (output) {
  await new Promise((resolve) => setTimeout(resolve, 1));
  return output === 'hello' ? 1 : 0;
}
