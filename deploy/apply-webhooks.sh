#!/bin/sh
# Applies the webhook configurations of a manifest, each webhook with the caBundle that is installed. After `kubectl apply`
# alone, a webhook with a new name has no caBundle, and its calls fail until a replica writes one, a fraction of a second later.
# Usage: sh deploy/apply-webhooks.sh deploy/install.yaml. Needs kubectl and jq.
set -eu
manifests=$(kubectl create -f "$1" --dry-run=client --validate=false -o json |
  jq -c '(.items // [.])[] | select(.webhooks)')
applied=$(printf '%s' "$manifests" | kubectl apply -f - --dry-run=server --validate=false -o json)
printf '%s' "$applied" |
  jq -c '([(.items // [.])[].webhooks[].clientConfig.caBundle | values] | first) as $bundle
    | (.items // [.])[] | .webhooks[].clientConfig.caBundle //= $bundle
    | {kind, metadata: {resourceVersion: .metadata.resourceVersion, annotations: .metadata.annotations}, webhooks}' |
  while read -r configuration; do
    kubectl patch "$(printf '%s' "$configuration" | jq -r .kind)" gpu-admission --type=merge --patch "$configuration"
  done
