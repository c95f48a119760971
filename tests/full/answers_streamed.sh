#!/usr/bin/env bash
# The answers of the demonstration model from event streams.
exec "$(dirname "$0")/../e2e/answers.sh" stream
