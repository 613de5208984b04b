"""Checks contrib/: the Helm chart and the manifests against the published Kubernetes schemas, Compose, Containerfile and alerts.

Usage: deploy.py ROOT SATIETY [--write | --custom]. With --write, renders contrib/kubernetes/satiety.yaml from the chart; with --custom, prints the
objects of other operators as lines of JSON. Every check is a function `check_…`; all of them run, and the exit code is 1 if one fails. Helm, hadolint and the schemas come from packages in
tests/python/requirements.txt; promtool and kubectl are used if they are installed.
"""

import copy
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import kubernetes_validate
import yaml

ROOT, SATIETY = Path(sys.argv[1]).resolve(), sys.argv[2]
CONTRIB = ROOT / "contrib"
CHART = CONTRIB / "helm/satiety"
PLAIN = CONTRIB / "kubernetes/satiety.yaml"
PROGRAMS = Path(sys.executable).parent
OLDEST, NEWEST = "1.30", kubernetes_validate.latest_version()
# Kinds of operators: their schemas are not published with Kubernetes; tests/node/custom_resources.mjs checks them.
CUSTOM = {"ScaledObject", "ServiceMonitor"}

# Values that together reach every branch of the templates.
VARIANTS = {
    "default": {},
    "everything": {
        "server": {"tlsSecret": "tls", "hostNames": ["a.example.org"], "extraArgs": ["--rate=50"], "nodeSelector": {"disk": "ssd"},
                   "extraEnv": [{"name": "SATIETY_SERVER_TRACES", "value": "http://otel:4318"}],
                   "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": {"podAntiAffinity": {}}},
        "workers": {"image": "registry.example.org/targets:1", "extraArgs": ["--judge=openai:m@https://models.example.org"],
                    "extraEnv": [{"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "openai"}}}],
                    "envFrom": [{"secretRef": {"name": "keys"}}], "nodeSelector": {"pool": "workers"},
                    "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": {"podAntiAffinity": {}}},
        "image": {"pullSecrets": [{"name": "pull"}], "tag": "1.2.3"},
        "database": {"url": "postgres://satiety:secret@db/satiety"},
        "ingress": {"enabled": True, "className": "nginx", "hosts": ["satiety.example.org"], "tlsSecret": "ingress-tls",
                    "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"}},
        "archive": {"existingClaim": "archive"},
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        "networkPolicy": {"database": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                          "serverEgress": [{"ports": [{"protocol": "TCP", "port": 4318}]}],
                          "workerEgress": [{"ports": [{"protocol": "TCP", "port": 443}]}]},
        "suites": {"volume": {"image": {"reference": "registry.example.org/suites:1"}, "persistentVolumeClaim": None}},
    },
    "keda": "options/keda-values.yaml",
    "namespaces": "options/worker-namespaces-values.yaml",
    "without workers": {"workers": {"enabled": False}, "suites": {"volume": None}, "migrate": {"enabled": False},
                        "podDisruptionBudget": {"enabled": False}, "networkPolicy": {"enabled": False}},
    "fixed size": {"autoscaling": {"kind": "none"}},
}


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def render(values, expect_failure=False):
    """The chart as text, or the error of Helm."""
    return run_helm(json.dumps(values), expect_failure)


@functools.cache
def run_helm(text, expect_failure):
    values = json.loads(text)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        if isinstance(values, str):
            file.write((CONTRIB / "kubernetes" / values).read_text())
        else:
            yaml.safe_dump(values, file)
        file.flush()
        done = run(PROGRAMS / "helm", "template", "satiety", CHART, "--namespace", "satiety", "--kube-version", NEWEST, "--values", file.name)
    assert (done.returncode != 0) == expect_failure, done.stderr or "Helm rendered values that it should refuse"
    return done.stderr if expect_failure else done.stdout


def objects(text):
    found = [document for document in yaml.safe_load_all(text) if document]
    assert found, "no objects"
    return found


def validate(document, version):
    if document["kind"] not in CUSTOM:
        kubernetes_validate.validate(document, version, strict=True)


def refuses(document, what, version=NEWEST):
    try:
        validate(document, version)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError(f"the schemas accept {what}")


def plain_manifest():
    """The rendered chart without what only Helm reads."""
    text = render({})
    text = re.sub(r"\n *(# Before the Job.*\n *)?annotations:\n(?: +helm\.sh/.*\n)+", "\n", text)
    text = re.sub(r"\n *helm\.sh/chart:.*", "", text)
    text = re.sub(r"\n# Source: .*", "", text)
    text = text.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kustomize")
    assert "helm.sh" not in text
    return "# The chart in contrib/helm/satiety with its default values; do not edit.\n" + text


def pods(documents):
    for document in documents:
        if document["kind"] in ("Deployment", "Job"):
            yield document, document["spec"]["template"]


def matches(selector, labels):
    return selector.items() <= labels.items()


def check_chart_against_the_schemas():
    done = run(PROGRAMS / "helm", "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    for name, values in VARIANTS.items():
        for document in objects(render(values)):
            # `image` volumes and procMount outside of a feature gate are newer than the oldest version.
            for version in [NEWEST] if name == "everything" else [OLDEST, NEWEST]:
                try:
                    validate(document, version)
                except kubernetes_validate.ValidationError as error:
                    raise AssertionError(f"{name}, {document['kind']} {document['metadata']['name']}, {version}: {error}") from None


def check_wrong_fields_are_refused():
    """The checks can fail: each change is a mistake that a person makes."""
    documents = {f"{d['kind']} {d['metadata']['name']}": d for d in objects(render({}))}
    server = documents["Deployment satiety-server"]
    for old, new in (("readinessProbe", "readynessProbe"), ("securityContext", "securitycontext"), ("resources", "resource")):
        broken = copy.deepcopy(server)
        container = broken["spec"]["template"]["spec"]["containers"][0]
        container[new] = container.pop(old)
        refuses(broken, f"{new} in a container")
    broken = copy.deepcopy(documents["HorizontalPodAutoscaler satiety-workers"])
    broken["spec"]["metrics"][0]["external"]["target"]["averagevalue"] = broken["spec"]["metrics"][0]["external"]["target"].pop("averageValue")
    refuses(broken, "averagevalue in an autoscaler")
    broken = copy.deepcopy(documents["NetworkPolicy satiety-server"])
    broken["spec"]["egress"][0]["ports"][0]["protocl"] = "UDP"
    refuses(broken, "protocl in a network policy")
    assert "replica" in render({"server": {"replica": 3}}, expect_failure=True)
    assert "suites.volume" in render({"suites": {"volume": None}}, expect_failure=True)
    assert "ingress.hosts" in render({"ingress": {"enabled": True}}, expect_failure=True)


def check_pods_are_restricted():
    for name, values in VARIANTS.items():
        for document, template in pods(objects(render(values))):
            spec, where = template["spec"], f"{name}: {document['metadata']['name']}"
            assert spec["automountServiceAccountToken"] is False, where
            security = spec["securityContext"]
            assert security["runAsNonRoot"] is True and security["runAsUser"] >= 10000, where
            if name != "namespaces":
                assert security["seccompProfile"] == {"type": "RuntimeDefault"}, where
            for container in spec["containers"] + spec.get("initContainers", []):
                inner = container["securityContext"]
                assert inner["readOnlyRootFilesystem"] is True and inner["allowPrivilegeEscalation"] is False, where
                assert inner["capabilities"] == {"drop": ["ALL"]}, where
                assert {"requests", "limits"} <= container["resources"].keys(), where
                mounted = {mount["name"] for mount in container["volumeMounts"]}
                assert mounted <= {volume["name"] for volume in spec["volumes"]}, where
                names = [variable["name"] for variable in container["env"]]
                assert len(names) == len(set(names)), f"{where}: {names}"


def check_selectors_and_ports():
    for values in VARIANTS.values():
        documents = objects(render(values))
        templates = [template for _, template in pods(documents)]
        names = [(document["kind"], document["metadata"]["name"]) for document in documents]
        assert len(names) == len(set(names)), names
        for document in documents:
            spec, kind = document.get("spec", {}), document["kind"]
            selector = {
                "Service": lambda: spec["selector"], "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
                "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"], "Deployment": lambda: spec["selector"]["matchLabels"],
            }.get(kind, lambda: None)()
            if selector:
                found = [template for template in templates if matches(selector, template["metadata"]["labels"])]
                assert len(found) == 1, f"{kind} {document['metadata']['name']} selects {len(found)} pods"
            if kind == "Service":
                ports = {port["name"] for port in found[0]["spec"]["containers"][0]["ports"]}
                assert spec["ports"][0]["targetPort"] in ports
            if kind in ("HorizontalPodAutoscaler", "ScaledObject"):
                assert ("Deployment", spec["scaleTargetRef"]["name"]) in names
            if kind == "ServiceMonitor":
                service = next(d for d in documents if d["kind"] == "Service")
                assert matches(spec["selector"]["matchLabels"], service["metadata"]["labels"])


@functools.cache
def options_of(*command):
    done = run(SATIETY, *command, "--help")
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))


def accepted(arguments):
    """Fails on an option that the program does not have."""
    command = [argument for argument in arguments[:2] if not argument.startswith("-")]
    known = options_of(*command)
    for argument in arguments:
        name = argument.split("=")[0]
        assert not name.startswith("--") or name in known, f"satiety {' '.join(command)} has no option {name}"


def known_settings():
    text = (ROOT / "docs/reference/settings.md").read_text()
    return set(re.findall(r"`(SATIETY_[A-Z_]+)`", text))


def check_arguments_and_settings_exist():
    settings = known_settings()
    for values in VARIANTS.values():
        for _, template in pods(objects(render(values))):
            for container in template["spec"]["containers"]:
                accepted(container["args"])
                for variable in container["env"]:
                    name = variable["name"]
                    assert not name.startswith("SATIETY_") or name in settings, f"no setting {name}"
    refused = False
    try:
        accepted(["serve", "--require-tokens"])
    except AssertionError:
        refused = True
    assert refused, "an unknown option is accepted"


def check_plain_manifests():
    text = plain_manifest()
    assert PLAIN.read_text() == text, f"{PLAIN.name} differs from the chart\nhint: run {Path(__file__).name} with --write"
    base = CONTRIB / "kubernetes"
    kustomization = yaml.safe_load((base / "kustomization.yaml").read_text())
    listed = [base / name for name in kustomization["resources"]]
    documents = [document for path in listed for document in objects(path.read_text())]
    documents += objects((base / "secret.example.yaml").read_text())
    for document in documents:
        for version in (OLDEST, NEWEST):
            validate(document, version)
        assert document["kind"] == "Namespace" or document["metadata"]["namespace"] == "satiety", document["metadata"]
    images = {container["image"] for _, template in pods(documents) for container in template["spec"]["containers"]}
    for image in kustomization["images"]:
        assert images == {f"{image['name']}:{image['newTag']}"}, images
    if shutil.which("kubectl"):
        done = run("kubectl", "kustomize", base)
        assert done.returncode == 0, done.stderr
        assert len(objects(done.stdout)) == len(documents) - 1
    else:
        print("skipped: kubectl is not installed, so the kustomization is only read")


def check_versions():
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version, f"Chart.yaml: appVersion {chart['appVersion']}, Cargo.toml {version}"
    kustomization = yaml.safe_load((CONTRIB / "kubernetes/kustomization.yaml").read_text())
    assert kustomization["images"][0]["newTag"] == version


def check_compose():
    path = CONTRIB / "compose.yaml"
    command = [PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = run(*command, path)
    assert done.returncode == 0, done.stdout
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as broken:
        broken.write(path.read_text().replace("read_only: true", "readonly: true"))
        broken.flush()
        assert run(*command, broken.name).returncode != 0, "the schema accepts a wrong field"
    compose, settings = yaml.safe_load(path.read_text()), known_settings()
    build = compose["services"]["migrate"]["build"]
    assert (path.parent / build["context"] / build["dockerfile"]).resolve() == CONTRIB / "Containerfile"
    for name, service in compose["services"].items():
        if name in ("postgres", "pgbouncer"):
            continue
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001", name
        accepted(service.get("command", ["db", "status"]))
        assert {key for key in service["environment"] if key.startswith("SATIETY_")} <= settings, name


def check_containerfile():
    path = CONTRIB / "Containerfile"
    done = run(PROGRAMS / "hadolint", "--failure-threshold", "info", path)
    assert done.returncode == 0, done.stdout
    broken = path.read_text().replace("--no-install-recommends ", "").encode()
    assert subprocess.run([PROGRAMS / "hadolint", "-"], input=broken, capture_output=True).returncode != 0, "hadolint accepts everything"
    text = path.read_text()
    # The archive that `cargo xtask dist` writes, and the program in it.
    source = (ROOT / "xtask/src/dist.rs").read_text()
    assert 'format!("satiety-{}", self.target)' in source and '"{name}.tar.gz"' in source, "dist.rs names its archives differently"
    assert "ADD satiety-${TARGET}.tar.gz" in text and "COPY --from=archive /archive/satiety/satiety " in text
    assert re.search(r"^USER 10001:10001$", text, re.M)
    accepted(json.loads(re.search(r"^CMD (.+)$", text, re.M)[1]))
    assert set(re.findall(r"\b(SATIETY_[A-Z_]+)=", text)) <= known_settings()


@functools.cache
def series():
    """Labels of every series that the program exposes."""
    text = (ROOT / "docs/reference/metrics.md").read_text()
    found = {}
    for name, kind, labels in re.findall(r"^\| `(satiety_\w+)` \| (\w+) \| (.*?) \|", text, re.M):
        own = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_bucket": own | {"le"}, f"{name}_sum": own, f"{name}_count": own}
        else:
            found[f"{name}_total" if kind == "counter" else name] = own
    assert len(found) > 10, found
    return found


def verify_expression(expression, where):
    """Fails on a metric or a label that the program does not expose. Prometheus adds the labels of the target."""
    text = re.sub(r'"[^"]*"', '""', expression)
    used = re.findall(r"(satiety_\w+)(?:\{([^}]*)\})?", text)
    assert used, f"{where}: no metric in {expression}"
    labels = {"instance", "job", "namespace", "pod"}
    for name, matchers in used:
        assert name in series(), f"{where}: unknown metric {name}"
        wrong = set(re.findall(r"(\w+)\s*(?:=|!)", matchers)) - series()[name] - {"instance", "job", "namespace", "pod"}
        assert not wrong, f"{where}: {name} has no label {', '.join(sorted(wrong))}"
        labels |= series()[name]
    for group in re.findall(r"\bby \(([^)]*)\)", text):
        wrong = set(re.findall(r"\w+", group)) - labels
        assert not wrong, f"{where}: no metric has a label {', '.join(sorted(wrong))}"


def refuses_expression(expression):
    try:
        verify_expression(expression, "test")
    except AssertionError:
        return True
    return False


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def check_queries():
    """Expressions of the dashboard and of the autoscaler with KEDA; check_alerts has those of the alerts."""
    for wrong in ("sum(satiety_nothing)", 'max(satiety_queue_depth{kind="work_waiting"})', "sum by (kind) (satiety_queue_depth)"):
        assert refuses_expression(wrong), f"{wrong} is accepted"
    dashboard = json.loads((CONTRIB / "grafana.json").read_text())
    ids = [panel["id"] for panel in panels(dashboard)]
    assert len(ids) == len(set(ids)), ids
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            verify_expression(target["expr"], f"grafana.json, {panel['title']}")
    for document in objects(render(VARIANTS["keda"])):
        if document["kind"] == "ScaledObject":
            verify_expression(document["spec"]["triggers"][0]["metadata"]["query"], "ScaledObject")


def check_alerts():
    path = CONTRIB / "alerts.yaml"
    rules = [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    assert len(rules) == 10 and len({rule["alert"] for rule in rules}) == 10
    runbook = (ROOT / "docs/guides/runbook.md").read_text()
    headings = re.findall(r"^## (.+)$", runbook, re.M)
    known = series().keys()
    for rule in rules:
        verify_expression(rule["expr"], rule["alert"])
        assert rule["alert"] in headings, f"runbook.md has no section {rule['alert']}"
        assert rule["annotations"]["runbook"] == f"docs/guides/runbook.md#{rule['alert'].lower()}"
    for text in (CONTRIB / "kubernetes/options/prometheus-adapter-values.yaml", *CHART.glob("templates/autoscaler.yaml"), ROOT / "docs/guides/runbook.md"):
        used = set(re.findall(r"\bsatiety_(?:queue|http|store|bench|memory)_\w+", text.read_text()))
        assert used <= known, f"{text.name}: unknown metrics {sorted(used - known)}"
    if not shutil.which("promtool"):
        print("skipped: promtool is not installed, so expressions are not parsed")
        return
    for arguments in (["check", "rules", path], ["test", "rules", ROOT / "tests/python/alerts_test.yaml"]):
        done = run("promtool", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


def main():
    if "--custom" in sys.argv:
        for document in (document for values in VARIANTS.values() for document in objects(render(values))):
            if document["kind"] in CUSTOM:
                print(json.dumps(document))
        return 0
    if "--write" in sys.argv:
        PLAIN.write_text(plain_manifest())
    failed = 0
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                print(f"ok      {name[6:].replace('_', ' ')}", flush=True)
            except Exception as error:
                failed += 1
                text = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
                print(f"FAILED  {name[6:].replace('_', ' ')}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
