// Plug-in for opencode: lets `satiety hook` watch over its sessions. Copy it to .opencode/plugin/ or ~/.config/opencode/plugin/.
//
// It needs the `satiety` program on the PATH. If that is missing or fails, opencode works as without the plug-in.
import { spawn } from "node:child_process";

const TIMEOUT_MS = 10_000;

/** Calls a hook with the payload that Claude Code would pass; returns its answer, or an empty text. */
function hook(program, event, payload, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, ["hook", event, "--for", "claude"], {
      stdio: ["pipe", "pipe", "ignore"], timeout: TIMEOUT_MS, env: { ...process.env, ...env },
    });
    let answer = "";
    child.stdout.on("data", (data) => { answer += data; });
    child.stdin.on("error", () => {});
    child.on("error", () => resolve(""));
    child.on("close", (code) => resolve(code === 0 ? answer : ""));
    child.stdin.end(JSON.stringify({ hook_event_name: event, ...payload }));
  });
}

function parse(answer) {
  try {
    return answer ? JSON.parse(answer) : {};
  } catch {
    return {};
  }
}

/** @type {import("@opencode-ai/plugin").Plugin} */
export const SatietyPlugin = async ({ client, directory }, options = {}) => {
  const program = typeof options.program === "string" ? options.program : "satiety";
  const session = (id) => ({ session_id: `opencode-${id}`, cwd: directory });
  return {
    "chat.message": async (input, output) => {
      const prompt = output.parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
      // A prompt starts a new series. Memories cannot be added here.
      await hook(program, "UserPromptSubmit", { ...session(input.sessionID), prompt }, { SATIETY_HOOKS_MEMORY_TOKENS: "0" });
    },
    "tool.execute.after": async (input, output) => {
      const answer = parse(await hook(program, "PostToolUse", {
        ...session(input.sessionID), tool_name: input.tool, tool_use_id: input.callID, tool_input: input.args,
        tool_response: output.output,
      }));
      const context = answer.hookSpecificOutput?.additionalContext;
      if (context) output.output += `\n\n${context}`;
      if (answer.continue === false) {
        output.output += `\n\n${answer.stopReason}`;
        await client.session.abort({ path: { id: input.sessionID } });
      }
    },
    "experimental.session.compacting": async (input, output) => {
      const keep = await hook(program, "PreCompact", { ...session(input.sessionID), trigger: "auto" });
      if (keep) output.context.push(keep);
    },
  };
};
