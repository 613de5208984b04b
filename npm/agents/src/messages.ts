/**
 * Messages in the shape of the OpenAI API, into which the adapters convert the messages of their frameworks.
 */

/** Message of an agent in the shape of OpenAI, Anthropic or LangChain, as plain JSON. */
export type Message = object;

export interface ToolCall {
  readonly id: string;
  readonly tool: string;
  readonly arguments: unknown;
}

/** Turn of the agent with its calls. */
export function assistantMessage(text: string, calls: readonly ToolCall[]): Message {
  const toolCalls = calls.map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.tool, arguments: asText(call.arguments ?? {}) },
  }));
  return { role: "assistant", content: text, ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}) };
}

/** Message with the result of a call. */
export function toolMessage(callId: string, content: unknown, failed?: boolean): Message {
  return {
    role: "tool",
    tool_call_id: callId,
    content: asText(content),
    ...(failed === undefined ? {} : { is_error: failed }),
  };
}

/** Text of a value: strings as they are, the message of an error, JSON where possible. Long texts are shortened. */
export function asText(value: unknown): string {
  if (typeof value === "string") return shorten(value);
  if (value instanceof Error) return shorten(value.message);
  try {
    return shorten(JSON.stringify(value) ?? "");
  } catch {
    return String(value);
  }
}

/** Maximum length of a text. A server takes at most 2 MiB at a time. */
const MAX_LENGTH = 100_000;

/** Replaces the middle of a long text, such as an image, with a hash, so that different texts stay different. */
function shorten(text: string): string {
  if (text.length <= MAX_LENGTH) return text;
  const middle = text.slice(MAX_LENGTH / 2, -MAX_LENGTH / 2);
  return `${text.slice(0, MAX_LENGTH / 2)}\n[${hash(middle)}]\n${text.slice(-MAX_LENGTH / 2)}`;
}

/** 32-bit FNV-1a. */
function hash(text: string): string {
  let state = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193);
  }
  return (state >>> 0).toString(16);
}
