#!/usr/bin/env bash
# Second step of the action: runs satiety, and turns its reports into a summary, annotations and outputs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=contrib/action/common.sh
source "$here/common.sh"

# GitHub rejects summaries above 1 MiB and comments above 65,536 characters.
summary_bytes=1000000
comment_bytes=60000

arguments=()
text=${INPUT_ARGS%$'\n'}
case $text in
  *$'\n'*)
    while IFS=$' \t' read -r line; do
      [[ -z $line ]] || arguments+=("$line")
    done <<< "$text"
    ;;
  *) read -r -a arguments <<< "$text" ;;
esac
[[ ${#arguments[@]} -gt 0 ]] || fail "missing input args"

out=$(mktemp -d "${RUNNER_TEMP:-/tmp}/satiety.XXXXXX")
reports=(--save "json=$out/result.json" --save "markdown=$out/report.md")
case " ${arguments[*]} " in
  *" harness check "*) reports+=(--save "sarif=$out/findings.sarif" --save "github=$out/annotations.txt") ;;
  *" bench run "*)
    reports+=(--save "sarif=$out/findings.sarif" --save "github=$out/annotations.txt")
    case " ${arguments[*]} " in
      *" --junit"*) ;;
      *) reports+=(--junit "$out/junit.xml") ;;
    esac
    ;;
esac

# Output may quote text of models and files, which must not be read as workflow commands.
token=satiety-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '::stop-commands::%s\n' "$token"
set +e
"$INPUT_BINARY" "${arguments[@]}" "${reports[@]}" 2>&1 > "$out/output.txt" | tee "$out/errors.txt"
code=${PIPESTATUS[0]}
set -e
cat "$out/output.txt"
printf '\n::%s::\n' "$token"

case $code in
  0) verdict=pass ;;
  1) verdict=fail ;;
  3) verdict=inconclusive ;;
  10) verdict=ship ;;
  11) verdict=stop ;;
  12) verdict=escalate ;;
  *) verdict=error ;;
esac

if [[ -f $out/annotations.txt && $INPUT_ANNOTATIONS != false ]]; then
  cat "$out/annotations.txt"
fi

# A command without a report has its output as one.
if [[ ! -f $out/report.md ]]; then
  { printf '~~~~~~text\n'; cat "$out/errors.txt" "$out/output.txt" | sed 's/^~~~~~~/ &/'; printf '\n~~~~~~\n'; } > "$out/report.md"
fi

# At most so many bytes of the report, in whole lines.
report() {
  if [[ $(wc -c < "$out/report.md") -le $1 ]]; then
    cat "$out/report.md"
  else
    head -c "$1" "$out/report.md" | sed '$d'
    printf '\n\n(truncated; the complete report is in the output of the job)\n'
  fi
}

heading="## $INPUT_TITLE: $verdict"
{ printf '%s\n\n' "$heading"; report "$summary_bytes"; } > "$out/summary.md"
if [[ $INPUT_SUMMARY != false ]]; then
  cat "$out/summary.md" >> "$GITHUB_STEP_SUMMARY"
fi
# The marker identifies the comment to update.
marker=$(printf '%s' "$INPUT_TITLE" | tr -c 'A-Za-z0-9._' '-')
{ printf '<!-- satiety: %s -->\n%s\n\n' "$marker" "$heading"; report "$comment_bytes"; } > "$out/comment.md"

set_output verdict "$verdict"
set_output exit-code "$code"
set_output summary-file "$out/summary.md"
set_output comment-file "$out/comment.md"
for name in json:result.json sarif:findings.sarif junit:junit.xml; do
  if [[ -f $out/${name#*:} ]]; then
    set_output "${name%%:*}-file" "$out/${name#*:}"
  fi
done

if [[ $verdict == error ]]; then
  annotate "$(cat "$out/errors.txt")"
fi
case $verdict in
  pass | ship | stop | escalate) exit 0 ;;
  inconclusive) [[ $INPUT_ALLOW_INCONCLUSIVE == true ]] && exit 0 ;;
esac
exit "$code"
