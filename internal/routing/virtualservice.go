package routing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// virtualServiceSpec is what a split needs to know of a VirtualService.
type virtualServiceSpec struct {
	HTTP []struct {
		Name  string         `json:"name"`
		Route []istioBackend `json:"route"`
		// Delegate names the VirtualService that has the rules instead.
		Delegate *struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"delegate"`
		Mirror  *istioDestination `json:"mirror"`
		Mirrors []istioBackend    `json:"mirrors"`
		Timeout string            `json:"timeout"`
	} `json:"http"`
	TCP []istioConnections `json:"tcp"`
	TLS []istioConnections `json:"tls"`
}

type istioConnections struct {
	Route []istioBackend `json:"route"`
}

type istioBackend struct {
	Destination istioDestination `json:"destination"`
	Weight      *int32           `json:"weight"`
}

type istioDestination struct {
	Host   string `json:"host"`
	Subset string `json:"subset"`
	Port   *struct {
		Number int32 `json:"number"`
	} `json:"port"`
}

func (d istioDestination) backend(namespace, domain string) Backend {
	b := fromHost(d.Host, namespace, domain)
	b.Subset = d.Subset
	if d.Port != nil {
		b.Port = d.Port.Number
	}
	return b
}

// readVirtualService takes the http rules of a VirtualService apart. An absent
// weight is 0 beside other destinations; a lone destination gets everything,
// whatever its weight says.
func readVirtualService(obj *unstructured.Unstructured, domain string) ([]rule, error) {
	var spec virtualServiceSpec
	if err := decodeSpec(obj, &spec); err != nil {
		return nil, err
	}
	ns := obj.GetNamespace()
	out := make([]rule, 0, len(spec.HTTP))
	for i, in := range spec.HTTP {
		r := rule{name: in.Name, place: fmt.Sprintf("http[%d]", i), path: fmt.Sprintf("/spec/http/%d", i), timeout: duration(in.Timeout)}
		if d := in.Delegate; d != nil {
			r.delegate = ns + "/" + d.Name
			if d.Namespace != "" {
				r.delegate = d.Namespace + "/" + d.Name
			}
		}
		if in.Mirror != nil {
			r.mirrors = append(r.mirrors, in.Mirror.backend(ns, domain))
		}
		for _, m := range in.Mirrors {
			r.mirrors = append(r.mirrors, m.Destination.backend(ns, domain))
		}
		for j, dest := range in.Route {
			e := end{to: dest.Destination.backend(ns, domain), path: fmt.Sprintf("%s/route/%d", r.path, j), raw: dest.Weight}
			switch {
			case len(in.Route) == 1:
				e.weight = 100
			case dest.Weight != nil:
				e.weight = *dest.Weight
			}
			r.ends = append(r.ends, e)
		}
		r.testDestinations(obj, i)
		out = append(out, r)
	}
	return out, nil
}

// testDestinations adds the test that each destination is still the whole of
// what was read.
func (r *rule) testDestinations(obj *unstructured.Unstructured, i int) {
	http, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "http")
	for j := range r.ends {
		dest, _, _ := unstructured.NestedFieldNoCopy(at(http, i), "route")
		r.ends[j].same.test(r.ends[j].path+"/destination", at(dest, j)["destination"])
	}
}

// at returns an object of a list, which the narrow types have read already.
func at(list any, i int) map[string]any {
	items, ok := list.([]any)
	if !ok || i >= len(items) {
		return nil
	}
	item, _ := items[i].(map[string]any)
	return item
}

// connections reports whether the weights between two tracks are those of TCP
// or TLS connections.
func connections(obj *unstructured.Unstructured, tracks [2]Backend, domain string) bool {
	var spec virtualServiceSpec
	if err := decodeSpec(obj, &spec); err != nil {
		return false
	}
	for _, c := range append(spec.TCP, spec.TLS...) {
		var r rule
		for _, dest := range c.Route {
			r.ends = append(r.ends, end{to: dest.Destination.backend(obj.GetNamespace(), domain)})
		}
		_, p := r.holding(tracks[0])
		_, q := r.holding(tracks[1])
		if p > 0 && q > 0 {
			return true
		}
	}
	return false
}
