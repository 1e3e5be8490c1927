package main

import "github.com/spf13/cobra"

// verbs are the commands of proctor, each in a file of its own.
func verbs(a *app) []*cobra.Command {
	return append([]*cobra.Command{
		newInitCommand(a),
		newRunCommand(a),
		newApplyCommand(a),
		newDiffCommand(a),
		newAuditCommand(a),
		newLogCommand(a),
		newVerifyCommand(a),
		newSessionsCommand(a),
		newTrustCommand(a),
		newExplainCommand(a),
		newRequestsCommand(a),
		newKeysCommand(a),
		newControlCommand(a),
		newRenderCommand(a),
		newDoctorCommand(a),
	}, hostVerbs(a)...)
}
