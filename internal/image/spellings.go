package image

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Spellings returns the texts that name the image in requests, in full first: docker.io/library/a:latest is also
// library/a:latest, a:latest, and each of them without the tag.
func (i *Image) Spellings() []string {
	list := []string{i.Name}
	if short, ok := strings.CutPrefix(i.Name, "docker.io/"); ok {
		list = append(list, short)
		if shorter, ok := strings.CutPrefix(short, "library/"); ok {
			list = append(list, shorter)
		}
	}
	for _, text := range list {
		if short, ok := strings.CutSuffix(text, ":"+name.DefaultTag); ok {
			list = append(list, short)
		}
	}
	return list
}

// SameName reports whether two texts name one image.
func SameName(a, b string) bool {
	fullA, errA := fullName(a)
	fullB, errB := fullName(b)
	return errA == nil && errB == nil && fullA == fullB
}
