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

/** Text of a value: strings as they are, the message of an error, JSON where possible. */
export function asText(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Error) return value.message;
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return String(value);
  }
}
