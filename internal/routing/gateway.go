package routing

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// gatewaySpec is what a split needs to know of an HTTPRoute or a GRPCRoute; they
// are alike in it.
type gatewaySpec struct {
	Rules []struct {
		Name               string                      `json:"name"`
		BackendRefs        []gatewayBackend            `json:"backendRefs"`
		Filters            []gatewayFilter             `json:"filters"`
		SessionPersistence *gwapiv1.SessionPersistence `json:"sessionPersistence"`
		Timeouts           *gwapiv1.HTTPRouteTimeouts  `json:"timeouts"`
	} `json:"rules"`
}

type gatewayBackend struct {
	gwapiv1.BackendRef `json:",inline"`

	Filters []gatewayFilter `json:"filters"`
}

type gatewayFilter struct {
	RequestMirror *gwapiv1.HTTPRequestMirrorFilter `json:"requestMirror"`
}

// readGateway takes the rules of an HTTPRoute or a GRPCRoute apart.
func readGateway(obj *unstructured.Unstructured, _ string) ([]rule, error) {
	var spec gatewaySpec
	if err := decodeSpec(obj, &spec); err != nil {
		return nil, err
	}
	ns := obj.GetNamespace()
	out := make([]rule, 0, len(spec.Rules))
	for i, in := range spec.Rules {
		r := rule{name: in.Name, place: fmt.Sprintf("rules[%d]", i), path: fmt.Sprintf("/spec/rules/%d", i), sticky: in.SessionPersistence != nil}
		if in.Timeouts != nil && in.Timeouts.Request != nil {
			r.timeout = duration(string(*in.Timeouts.Request))
		}
		r.mirrors = mirrored(in.Filters, ns)
		r.ends = make([]end, 0, len(in.BackendRefs))
		for j, ref := range in.BackendRefs {
			r.ends = append(r.ends, gatewayEnd(ref, fmt.Sprintf("%s/backendRefs/%d", r.path, j), ns))
			r.mirrors = append(r.mirrors, mirrored(ref.Filters, ns)...)
		}
		out = append(out, r)
	}
	return out, nil
}

// gatewayEnd reads one backend. An absent weight is 1, the default of the API.
func gatewayEnd(ref gatewayBackend, path, namespace string) end {
	e := end{to: fromReference(ref.BackendObjectReference, namespace), path: path, weight: 1, raw: ref.Weight, same: make(Patch, 0, 3)}
	if ref.Weight != nil {
		e.weight = *ref.Weight
	}
	e.same.test(path+"/name", ref.Name)
	e.same.test(path+"/namespace", ref.Namespace)
	e.same.test(path+"/port", ref.Port)
	return e
}

// fromReference reads a reference to a backend; one to anything but a Service
// is nobody's.
func fromReference(ref gwapiv1.BackendObjectReference, namespace string) Backend {
	b := Backend{Namespace: namespace, Service: string(ref.Name)}
	if ref.Namespace != nil {
		b.Namespace = string(*ref.Namespace)
	}
	if ref.Port != nil {
		b.Port = *ref.Port
	}
	group, kind := "", "Service"
	if ref.Group != nil {
		group = string(*ref.Group)
	}
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if group != "" || kind != "Service" {
		b.Service = fmt.Sprintf("%s (%s)", b.Service, kind)
	}
	return b
}

func mirrored(filters []gatewayFilter, namespace string) []Backend {
	var out []Backend
	for _, f := range filters {
		if f.RequestMirror != nil {
			out = append(out, fromReference(f.RequestMirror.BackendRef, namespace))
		}
	}
	return out
}

// decodeSpec reads what a narrow type asks for of an object's spec.
func decodeSpec(obj *unstructured.Unstructured, into any) error {
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("it has no spec")
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(spec, into)
}

// duration reads a timeout; what cannot be read, and 0, say nothing.
func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0
	}
	return d
}
