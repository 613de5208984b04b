# shellcheck shell=bash
# Functions of the action's steps. Works with bash 3.2, which macOS runners have.

# Prints an error annotation. Text in the message cannot start a workflow command.
annotate() {
  local text=$1
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  text=${text//$'\n'/%0A}
  printf '::error title=Satiety::%s\n' "$text"
}

fail() {
  annotate "$1"
  exit 2
}

# Sets an output of the step. Values are paths and words made by these scripts, except for the input `binary`.
set_output() {
  case $2 in
    *$'\n'*) fail "cannot set the output $1: the value has several lines" ;;
  esac
  printf '%s=%s\n' "$1" "$2" >> "$GITHUB_OUTPUT"
}
