package main

import (
	"fmt"
	"io"
)

// readAtMost reads everything, or says that it is too much.
func readAtMost(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("larger than %d bytes", most)
	}
	return data, nil
}
