//go:build real && linux

package cdp

import (
	"bytes"
	"image"
	"testing"

	"browserhost"
)

// noise fills what is seen with what no encoder can make small.
const noise = `<style>body { margin: 0 }</style><canvas id=c></canvas><script>
c.width = innerWidth; c.height = innerHeight;
const g = c.getContext("2d"), d = g.createImageData(c.width, c.height);
let x = 1;
for (let i = 0; i < d.data.length; i++) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; d.data[i] = i % 4 === 3 ? 255 : x & 255; }
g.putImageData(d, 0, 0);
</script>`

// A picture is whole, of the kind and size that it says, and within the bounds
// whatever the page does; it is scaled down for that and never cut (contract B,
// S3.17, S3.35).
func TestScreenshot(t *testing.T) {
	s := serveWeb(t, map[string]string{
		"/": shop, "/noise": noise,
		"/long":  `<body style="margin:0"><div style="height:20000px;background:linear-gradient(red,blue)">Long</div>`,
		"/tall":  `<body style="margin:0"><div style="height:300000px;background:linear-gradient(red,blue)">Tall</div>`,
		"/large": `<body style="margin:0"><div style="width:9000px;height:9000px;background:linear-gradient(red,blue)">Large</div>`,
	})
	d := attach(t, launch(t, full), s)
	p := openAt(t, d, "http://shop.test/")
	for _, c := range []struct {
		path          string
		opts          browserhost.ScreenshotOptions
		mime          string
		width, height int // 0 = smaller than the view
	}{
		{"/", browserhost.ScreenshotOptions{}, "image/png", viewWidth, viewHeight},
		{"/", browserhost.ScreenshotOptions{Format: "jpeg"}, "image/jpeg", viewWidth, viewHeight},
		{"/", browserhost.ScreenshotOptions{FullPage: true}, "image/png", viewWidth, viewHeight},
		{"/long", browserhost.ScreenshotOptions{FullPage: true}, "image/png", 259, 4096},
		{"/tall", browserhost.ScreenshotOptions{FullPage: true}, "image/png", 15, 4096},
		{"/large", browserhost.ScreenshotOptions{FullPage: true}, "image/png", 4096, 4096},
		{"/large", browserhost.ScreenshotOptions{}, "image/png", viewWidth, viewHeight},
		{"/noise", browserhost.ScreenshotOptions{}, "image/png", 0, 0},
		{"/noise", browserhost.ScreenshotOptions{Format: "jpeg"}, "image/jpeg", viewWidth, viewHeight},
	} {
		if _, err := p.Navigate(t.Context(), "http://shop.test"+c.path, ""); err != nil {
			t.Fatal(err)
		}
		im, err := p.Screenshot(t.Context(), c.opts)
		if err != nil {
			t.Errorf("%s %+v: %v", c.path, c.opts, err)
			continue
		}
		if im.MIME != c.mime || len(im.Data) > browserhost.MaxImageBytes || im.Width > browserhost.MaxImageSide || im.Height > browserhost.MaxImageSide {
			t.Errorf("%s %+v: %s, %d by %d, %d bytes", c.path, c.opts, im.MIME, im.Width, im.Height, len(im.Data))
		}
		size, kind, err := image.DecodeConfig(bytes.NewReader(im.Data))
		if err != nil || "image/"+kind != im.MIME || size.Width != im.Width || size.Height != im.Height {
			t.Errorf("%s %+v: it is %s %+v, %v", c.path, c.opts, kind, size, err)
		}
		if im.Width <= viewWidth { // sixteen million pixels take their time
			if _, _, err := image.Decode(bytes.NewReader(im.Data)); err != nil {
				t.Errorf("%s %+v: %v", c.path, c.opts, err)
			}
		}
		near := func(got, want int) bool { return got >= want-4 && got <= want+4 }
		if c.width == 0 && im.Width < 100 || c.width != 0 && (!near(im.Width, c.width) || !near(im.Height, c.height)) {
			t.Errorf("%s %+v: %d by %d, want %d by %d", c.path, c.opts, im.Width, im.Height, c.width, c.height)
		}
	}
	if _, err := p.Screenshot(t.Context(), browserhost.ScreenshotOptions{Format: "webp"}); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
		t.Errorf("%v", err)
	}
}
