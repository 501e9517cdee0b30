package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/shifter-dev/shifter/internal/release"
)

// container is the name of the one container in every pod.
const container = "app"

// podTemplate is what a Deployment says of its pods.
type podTemplate struct {
	Labels map[string]string
	Image  string
}

func newTemplate(t release.Track, version string) podTemplate {
	return podTemplate{
		Labels: map[string]string{"app": Service(release.Primary), "track": t.String()},
		Image:  Service(release.Primary) + ":" + version,
	}
}

// version is the image's tag.
func (t podTemplate) version() string {
	_, tag, _ := strings.Cut(t.Image, ":")
	return tag
}

// hash names the template as Kubernetes does: FNV-32a over the template,
// written in letters that spell no words. Labels count, so the same image in
// both tracks has two hashes.
func (t podTemplate) hash() string {
	b, err := json.Marshal(t) // a map is written in the order of its keys
	if err != nil {
		panic(err) // two strings and a map of strings cannot fail
	}
	h := fnv.New32a()
	_, _ = h.Write(b)
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	digits := []byte(fmt.Sprint(h.Sum32()))
	for i, d := range digits {
		digits[i] = letters[int(d)%len(letters)]
	}
	return string(digits)
}

// newUID returns an object's UID, a random one as in Kubernetes.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

// podSuffix returns the five letters that tell a ReplicaSet's pods apart.
func podSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	var b [5]byte
	_, _ = rand.Read(b[:])
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b[:])
}
