package helm

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/heraldbridge/herald/config"
)

const chartDir = "../../helm/herald"

func values(t *testing.T, file string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if file == "" {
		return out
	}
	data, err := os.ReadFile(filepath.Join(chartDir, "ci", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// render gives the documents of the chart, decoded strictly, by kind and name. Kinds that are not Kubernetes' own come as maps.
func render(t *testing.T, with map[string]any) (map[string]runtime.Object, map[string]map[string]any) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	vals, err := util.ToRenderValues(chart, with, common.ReleaseOptions{Name: "prod", Namespace: "bridge", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(chart, vals)
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializer.SerializerOptions{Yaml: true, Strict: true})
	own, foreign := map[string]runtime.Object{}, map[string]map[string]any{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		docs := k8syaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
		buf := make([]byte, 1<<20)
		for {
			n, err := docs.Read(buf)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			doc := bytes.Clone(buf[:n])
			var head map[string]any
			if err := yaml.UnmarshalStrict(doc, &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if len(head) == 0 {
				continue
			}
			version, _ := head["apiVersion"].(string)
			kind, _ := head["kind"].(string)
			meta, _ := head["metadata"].(map[string]any)
			if meta["namespace"] != "bridge" {
				t.Errorf("%s: %s stands in the namespace %v", name, kind, meta["namespace"])
			}
			key := kind + "/" + meta["name"].(string)
			if own[key] != nil || foreign[key] != nil {
				t.Errorf("%s is rendered twice", key)
			}
			if strings.Contains(version, "coreos") || strings.Contains(version, "keda") {
				foreign[key] = head
				continue
			}
			gvk := schema.FromAPIVersionAndKind(version, kind)
			obj, _, err := strict.Decode(doc, &gvk, nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, key, err)
			}
			own[key] = obj
		}
	}
	return own, foreign
}

func TestLint(t *testing.T) {
	for _, file := range []string{"", "full.yaml", "hpa.yaml"} {
		l := lint.RunAll(chartDir, values(t, file), "bridge")
		for _, m := range l.Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("values %q: %s", file, m)
			}
		}
	}
}

func names[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func TestRendersWhatIsSwitchedOn(t *testing.T) {
	for file, want := range map[string][]string{
		"": {
			"ConfigMap/prod-herald", "Deployment/prod-herald-notifier", "Deployment/prod-herald-watcher", "NetworkPolicy/prod-herald-notifier",
			"NetworkPolicy/prod-herald-watcher", "PodDisruptionBudget/prod-herald-notifier", "PodDisruptionBudget/prod-herald-watcher",
			"Service/prod-herald-notifier", "Service/prod-herald-watcher", "ServiceAccount/prod-herald",
		},
		"full.yaml": {
			"ConfigMap/prod-herald", "ConfigMap/prod-herald-dashboard", "Deployment/prod-herald-notifier", "Deployment/prod-herald-watcher",
			"NetworkPolicy/prod-herald-notifier", "NetworkPolicy/prod-herald-watcher", "PodDisruptionBudget/prod-herald-notifier",
			"PodDisruptionBudget/prod-herald-watcher", "Service/prod-herald-notifier", "Service/prod-herald-watcher", "ServiceAccount/prod-herald",
			"PrometheusRule/prod-herald", "ScaledObject/prod-herald-notifier", "ServiceMonitor/prod-herald",
		},
		"hpa.yaml": {
			"Deployment/prod-herald-notifier", "Deployment/prod-herald-watcher", "HorizontalPodAutoscaler/prod-herald-notifier",
			"NetworkPolicy/prod-herald-notifier", "NetworkPolicy/prod-herald-watcher", "Service/prod-herald-notifier", "Service/prod-herald-watcher",
		},
	} {
		own, foreign := render(t, values(t, file))
		got := append(names(own), names(foreign)...)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("values %q render\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestPodsAreConfined(t *testing.T) {
	for _, file := range []string{"", "full.yaml", "hpa.yaml"} {
		own, _ := render(t, values(t, file))
		for _, role := range []string{"watcher", "notifier"} {
			d, ok := own["Deployment/prod-herald-"+role].(*appsv1.Deployment)
			if !ok {
				t.Fatalf("values %q: no %s", file, role)
			}
			if scaled := role == "notifier" && file != ""; scaled != (d.Spec.Replicas == nil) {
				t.Errorf("values %q: %s: replicas %v", file, role, d.Spec.Replicas)
			}
			pod := d.Spec.Template.Spec
			c := pod.Containers[0]
			for what, ok := range map[string]bool{
				"selector matches":     matches(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels),
				"no token":             pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
				"not root":             *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser == 65532,
				"seccomp":              pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"root read-only":       *c.SecurityContext.ReadOnlyRootFilesystem,
				"no escalation":        !*c.SecurityContext.AllowPrivilegeEscalation,
				"no capabilities":      len(c.SecurityContext.Capabilities.Drop) == 1 && c.SecurityContext.Capabilities.Drop[0] == "ALL",
				"alive":                c.LivenessProbe.HTTPGet.Path == "/healthz",
				"ready":                c.ReadinessProbe.HTTPGet.Path == "/readyz",
				"started":              c.StartupProbe.HTTPGet.Path == "/healthz",
				"memory bounded":       !c.Resources.Limits.Memory().IsZero(),
				"time to stop":         *pod.TerminationGracePeriodSeconds == 40,
				"image is pinned":      !strings.HasSuffix(c.Image, ":latest") && strings.ContainsAny(c.Image, ":@"),
				"no plain secret":      len(c.Env) == 0 && len(c.EnvFrom) == 0,
				"restart on a change":  d.Spec.Template.Annotations["checksum/config"] != "",
				"updates take nothing": d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 0,
				"its own program":      c.Command[0] == "/bin/"+role,
			} {
				if !ok {
					t.Errorf("values %q: %s: not so: %s", file, role, what)
				}
			}
			for _, v := range pod.Volumes {
				if v.Projected == nil {
					continue
				}
				for _, s := range v.Projected.Sources {
					if role == "notifier" && s.Secret.Name == "envoy-tokens" || role == "watcher" && s.Secret.Name == "sink-secrets" {
						t.Errorf("values %q: %s is given %s", file, role, s.Secret.Name)
					}
				}
			}
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func TestPoliciesAndBudgets(t *testing.T) {
	own, _ := render(t, values(t, "full.yaml"))
	for _, role := range []string{"watcher", "notifier"} {
		labels := own["Deployment/prod-herald-"+role].(*appsv1.Deployment).Spec.Template.Labels
		p := own["NetworkPolicy/prod-herald-"+role].(*networkingv1.NetworkPolicy)
		if !matches(p.Spec.PodSelector.MatchLabels, labels) || len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) != 1 {
			t.Errorf("%s: policy %+v", role, p.Spec)
		}
		open := map[int]bool{}
		for _, e := range p.Spec.Egress {
			for _, port := range e.Ports {
				open[port.Port.IntValue()] = true
			}
		}
		for port, want := range map[int]bool{53: true, 4222: true, 6379: true, 443: true, 465: role == "notifier", 25: false, 80: false} {
			if open[port] != want {
				t.Errorf("%s: port %d is open: %t", role, port, open[port])
			}
		}
		b := own["PodDisruptionBudget/prod-herald-"+role].(*policyv1.PodDisruptionBudget)
		if !matches(b.Spec.Selector.MatchLabels, labels) || b.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: budget %+v", role, b.Spec)
		}
		s := own["Service/prod-herald-"+role].(*corev1.Service)
		if !matches(s.Spec.Selector, labels) {
			t.Errorf("%s: service selects %v", role, s.Spec.Selector)
		}
	}
}

func TestConfigurationLoads(t *testing.T) {
	for _, file := range []string{"", "full.yaml"} {
		own, _ := render(t, values(t, file))
		text := own["ConfigMap/prod-herald"].(*corev1.ConfigMap).Data["herald.yaml"]
		if _, err := config.Parse("herald.yaml", []byte(text)); err != nil {
			t.Errorf("values %q: %v\n%s", file, err, text)
		}
	}
}

func TestRulesAndDashboardAreWhole(t *testing.T) {
	own, foreign := render(t, values(t, "full.yaml"))
	spec := foreign["PrometheusRule/prod-herald"]["spec"].(map[string]any)
	if groups, ok := spec["groups"].([]any); !ok || len(groups) == 0 {
		t.Errorf("no rules: %v", spec)
	}
	board := own["ConfigMap/prod-herald-dashboard"].(*corev1.ConfigMap).Data["herald.json"]
	want, err := os.ReadFile("../../grafana/herald.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(board) != strings.TrimSpace(string(want)) {
		t.Error("the dashboard is not the one of deploy/grafana")
	}
}

func TestSchemaRefuses(t *testing.T) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]map[string]any{
		"Misspelt":       {"watchers": map[string]any{}},
		"NoImage":        {"image": map[string]any{"repository": ""}},
		"Latest":         {"image": map[string]any{"tag": "latest"}},
		"KedaNoAddress":  {"autoscaling": map[string]any{"mode": "keda"}},
		"GraceTooShort":  {"terminationGracePeriodSeconds": 10},
		"PlainToken":     {"config": map[string]any{"http": map[string]any{"token": "hunter2"}}},
		"SecretNotNamed": {"secrets": map[string]any{"common": []any{"Not A Name"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := util.ToRenderValues(chart, with, common.ReleaseOptions{Name: "prod", Namespace: "bridge"}, common.DefaultCapabilities); err == nil {
				t.Error("accepted")
			}
		})
	}
}
