/** Scripted model for the frameworks that take models of the AI SDK. */

import { MockLanguageModelV4 } from "ai/test";
import type { Script } from "./scripted.ts";

export function scriptedModel(script: Script): MockLanguageModelV4 {
  let turn = 0;
  return new MockLanguageModelV4({
    async doGenerate() {
      turn += 1;
      const action = script(turn);
      const isText = typeof action === "string";
      return {
        content: isText
          ? [{ type: "text", text: action }]
          : [
              {
                type: "tool-call",
                toolCallId: `call_${turn}`,
                toolName: action.tool,
                input: JSON.stringify(action.input),
              },
            ],
        finishReason: { unified: isText ? "stop" : "tool-calls", raw: undefined },
        usage: {
          inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 5, text: 5, reasoning: undefined },
        },
        warnings: [],
      };
    },
  });
}
