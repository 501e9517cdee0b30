//go:build nosandbox

package main

import "github.com/spf13/cobra"

// moreCommands is empty in an image that leaves the sandbox out.
func moreCommands() []*cobra.Command { return nil }
