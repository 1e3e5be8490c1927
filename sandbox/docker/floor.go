package docker

func floor(kind, version string) string { return "unknown" }
