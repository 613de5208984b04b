// Writes agents/src/openapi.ts: the schemas of docs/reference/openapi.json as TypeScript types.
//
// node npm/generate-types.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const source = new URL("../docs/reference/openapi.json", import.meta.url);
const target = new URL("./agents/src/openapi.ts", import.meta.url);

/** The module as text, from the parsed OpenAPI document. */
export function generate(document) {
  const parts = [
    "// Written by generate-types.mjs from docs/reference/openapi.json; do not edit.\n\n" +
      "/** Types of the HTTP API: what requests and responses consist of. */\n",
  ];
  const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, schema] of schemas) {
    const type = typeOf(schema, "");
    const isInterface = schema.properties && !(schema.oneOf ?? schema.anyOf ?? schema.allOf);
    parts.push(`${comment(schema, "")}export ${isInterface ? `interface ${name} ${type}` : `type ${name} = ${type};`}\n`);
  }
  return parts.join("\n");
}

function typeOf(schema, indent) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema === false) return "never";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (alternatives) {
    const choice = union(alternatives.map((alternative) => typeOf(alternative, indent)));
    if (!schema.properties) return choice;
    // Alternatives that only require some of the properties.
    return choice === "unknown" ? objectType(schema, indent) : `${objectType(schema, indent)} & (${choice})`;
  }
  if (schema.allOf) {
    const parts = schema.allOf.map((part) => typeOf(part, indent));
    return (schema.properties ? [objectType(schema, indent), ...parts] : parts).join(" & ");
  }
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)));
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return arrayType(schema, indent);
    case "object":
      return objectType(schema, indent);
    default:
      return schema.properties ? objectType(schema, indent) : "unknown";
  }
}

function arrayType(schema, indent) {
  if (schema.prefixItems) return `[${schema.prefixItems.map((item) => typeOf(item, indent)).join(", ")}]`;
  const item = typeOf(schema.items, indent);
  return /^\w+$/.test(item) ? `${item}[]` : `Array<${item}>`;
}

function objectType(schema, indent) {
  const inner = `${indent}  `;
  const required = new Set(schema.required);
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    return `${comment(property, inner)}${inner}${key}${required.has(name) ? "" : "?"}: ${typeOf(property, inner)};\n`;
  });
  if (properties.length > 0) return `{\n${properties.join("")}${indent}}`;
  const values = schema.additionalProperties;
  return `Record<string, ${values === undefined || values === false ? "unknown" : typeOf(values, indent)}>`;
}

function union(types) {
  return [...new Set(types)].join(" | ");
}

function comment(schema, indent) {
  const text = schema.description?.trim().replaceAll("*/", "*\\/");
  if (!text) return "";
  const lines = text.split("\n");
  if (lines.length === 1) return `${indent}/** ${text} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = generate(JSON.parse(readFileSync(source, "utf8")));
  if (!process.argv.includes("--check")) {
    writeFileSync(target, text);
  } else if (readFileSync(target, "utf8") !== text) {
    console.error("error: npm/agents/src/openapi.ts is out of date\nhint: run `node npm/generate-types.mjs`");
    process.exitCode = 1;
  }
}
