package packages

// Entry is the version's own part of the document, as the registry wrote it;
// nil is none.
func (d *Document) Entry(version string) []byte { return d.doc.Versions[version] }
