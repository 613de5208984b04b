/**
 * Temporary directories that are deleted when the process ends.
 *
 * A process that is killed cannot delete its directory; the next process does, because the name has the process id.
 */

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PREFIX = "satiety-agents-";
const directories = new Set<string>();

export function createDirectory(): string {
  if (directories.size === 0) {
    process.once("exit", removeAll);
    removeStale();
  }
  const directory = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  directories.add(directory);
  return directory;
}

export function removeDirectory(directory: string): void {
  directories.delete(directory);
  if (directories.size === 0) process.off("exit", removeAll);
  remove(directory);
}

function removeAll(): void {
  for (const directory of directories) remove(directory);
}

function removeStale(): void {
  for (const name of readdirSync(tmpdir())) {
    const owner = name.startsWith(PREFIX) ? Number.parseInt(name.slice(PREFIX.length), 10) : Number.NaN;
    if (owner > 0 && !isRunning(owner)) remove(join(tmpdir(), name));
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function remove(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch {
    // In use by a process that is about to end, or owned by another user.
  }
}
