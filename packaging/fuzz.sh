#!/bin/bash
# Runs every fuzz target of the tree for the given time each (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
count=0
while IFS=: read -r file target; do
  dir=./$(dirname "$file")
  echo "fuzz: $dir $target for $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
  count=$((count + 1))
done < <(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -o '^func Fuzz[A-Za-z0-9_]*' /dev/null | sed 's/func //' | sort -u)
if [ "$count" -eq 0 ]; then
  echo 'fuzz: there is no fuzz target' >&2
  exit 1
fi
echo "fuzz: $count targets, none failed"
