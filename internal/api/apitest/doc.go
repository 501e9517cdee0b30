// Package apitest makes up releases in every state, for tests of what people
// and pipelines are shown. It is not part of the product.
package apitest
