#!/bin/sh
# Makes the git repository `shop` that the agent works on. Author and dates are fixed, so its commit is always the same.
set -eu
cd "$(dirname "$0")"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=Shop GIT_AUTHOR_EMAIL=shop@localhost GIT_AUTHOR_DATE='2026-01-01T00:00:00+0000'
export GIT_COMMITTER_NAME=Shop GIT_COMMITTER_EMAIL=shop@localhost GIT_COMMITTER_DATE='2026-01-01T00:00:00+0000'
rm -rf shop
git init --quiet --initial-branch=main shop
cp source/shop.py shop/
git -C shop add shop.py
git -C shop commit --quiet --message 'A shop with two bugs'
git -C shop rev-parse HEAD
