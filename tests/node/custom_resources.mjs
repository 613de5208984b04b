// Validates objects of KEDA and the Prometheus Operator, one JSON object per line on standard input, with the schemas of their operators.
import { createInterface } from "node:readline";

import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";

const KINDS = { ScaledObject, ServiceMonitor };
const seen = new Set();

/** Whether the schema of its kind accepts an object; throws for an unknown kind. */
function accepts(object) {
  const Kind = KINDS[object.kind];
  if (!Kind) throw new Error(`no schema for ${object.kind}`);
  try {
    new Kind(object).validate();
    return "";
  } catch (error) {
    return error.message;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const object = JSON.parse(line);
  const problem = accepts(object);
  if (problem) throw new Error(`${object.kind} ${object.metadata.name}: ${problem}`);
  // The schema can refuse: a list in place of the specification.
  if (!accepts({ ...object, spec: [] })) throw new Error(`the schema of ${object.kind} accepts everything`);
  seen.add(object.kind);
}
if (seen.size !== Object.keys(KINDS).length) throw new Error(`only seen: ${[...seen].join(", ")}`);
console.log(`ok: ${[...seen].sort().join(", ")}`);
