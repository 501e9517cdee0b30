package workload

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzSnapshot reads anything as a Deployment, as its ReplicaSet, as a pod and as
// endpoints, and tells what it is.
func FuzzSnapshot(f *testing.F) {
	for _, text := range []string{
		`{"metadata":{"name":"app","uid":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"x:1"}]}}},"status":{"conditions":[{"type":"Progressing","status":"False"}]}}`,
		`{"metadata":{"name":"rs","uid":"r","labels":{"pod-template-hash":"h"},"ownerReferences":[{"uid":"d","controller":true}],"creationTimestamp":"2026-11-01T00:00:00Z"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"initContainers":[null]}}},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}}`,
		`{"metadata":{"name":"p","uid":"p","ownerReferences":[{"uid":"r","controller":true}]},"spec":{"selector":{"matchLabels":{"a":"b"}}},"status":{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ErrImagePull"}},"lastState":{"terminated":{"exitCode":1}}}]}}`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}}},"endpoints":[{"targetRef":{"kind":"Pod","uid":"p"}},{}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func() *unstructured.Unstructured {
			o := &unstructured.Unstructured{}
			if err := kjson.Unmarshal(in, &o.Object); err != nil {
				t.Skip()
			}
			return o
		}
		d, err := readDeployment(read())
		if err != nil {
			return
		}
		s := snapshot{at: time.Unix(1e9, 0), deployment: d}
		set, err := readReplicaSet(read())
		if err != nil {
			return
		}
		s.sets = []replicaSet{set, set}
		_ = s.addPod(read())
		_ = s.addEndpoints(read())
		_ = s.state()
		if live, ok := d.live(s.sets); ok {
			_ = d.undoTo(s.sets, live)
			_ = undoPatch(d, live)
		}
	})
}
