/** Returns the path of the executable for this platform; throws an error with a hint if it is not installed. */
export function findExecutable(): string;
