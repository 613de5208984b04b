// Drives `/mcp` of `satiety serve` with the official TypeScript SDK. Usage: mcp_client.mjs URL TOKEN RESEARCH_ID.
// Prints the failed check and exits with 1.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token, research] = process.argv.slice(2);

function check(condition, what) {
  if (!condition) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

async function connect(headers) {
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  const client = new Client({ name: "typescript-test", version: "0" });
  await client.connect(transport);
  return { client, transport };
}

async function refused(headers, status) {
  try {
    await connect(headers);
  } catch (error) {
    check(error.code === status || String(error).includes(String(status)), `${error} is not ${status}`);
    return;
  }
  throw new Error(`${JSON.stringify(headers)} was accepted`);
}

const bearer = { Authorization: `Bearer ${token}` };
const { client, transport } = await connect(bearer);
check(transport.sessionId, "no session id");
check(client.getServerVersion().name === "satiety", client.getServerVersion());
check(client.getInstructions().includes("data"), "no instructions");

// The SDK validates responses against the output schemas of this list.
const { tools } = await client.listTools();
check(tools.every((tool) => tool.outputSchema && tool.annotations), "a tool without a schema or annotations");
async function call(name, args) {
  const result = await client.callTool({ name, arguments: args });
  check(!result.isError, result.content);
  return result.structuredContent;
}
const saved = await call("memory_save", { title: "Lock order", content: "Take the store lock before the journal lock." });
const found = await call("memory_search", { query: "which lock comes before the journal lock" });
const read = await call("memory_read", { id: saved.memory.id });
check(read.query_id === found.query_id, "the read is not attributed to the search of this session");
const wrong = await client.callTool({ name: "memory_search", arguments: { query: " " } });
check(wrong.isError && wrong.content[0].text.includes("hint:"), wrong);

const { resourceTemplates } = await client.listResourceTemplates();
check(resourceTemplates.some((one) => one.uriTemplate === "satiety://research/{id}"), resourceTemplates);
const report = await client.readResource({ uri: `satiety://research/${research}` });
check(report.contents[0].text.toLowerCase().includes("heat pump"), report);
const { prompts } = await client.listPrompts();
check(prompts.some((prompt) => prompt.name === "recall_before_task"), prompts);
await transport.terminateSession();
await client.close();

await refused({}, 401);
await refused({ Authorization: "Bearer satiety_wrong_wrong" }, 401);
await refused({ ...bearer, Origin: "https://evil.example" }, 403);
console.log("all of it");
