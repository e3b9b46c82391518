#!/bin/sh
# Runs the scenario $2 twice with the command $1, the second time at other addresses. Findings are the
# scenario's own affair (exit code 1); digests that differ are not (70).
"$1" run "$2" --twice --quiet
test $? -le 1
