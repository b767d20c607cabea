package cdp

import (
	"bytes"
	"context"
	"image"
	_ "image/jpeg" // sizes are read from the picture itself
	_ "image/png"
	"math"

	"browserhost"

	pagecmd "github.com/chromedp/cdproto/page"
)

// shotTime bounds one picture.
const shotTime = browserhost.CallTime / 2

// minScale is how small a picture is made before it is given up.
const minScale = 1.0 / 16

// jpegQuality is what a JPEG starts with.
const jpegQuality = 80

// Screenshot takes a picture of what is visible, or of the whole page. One that
// is too large is scaled down; one that is too large at a sixteenth of its size
// is CodeInputInvalid (contract B, S3.35).
func (p *page) Screenshot(ctx context.Context, opts browserhost.ScreenshotOptions) (browserhost.Image, error) {
	var none browserhost.Image
	if opts.Format == "" {
		opts.Format = "png"
	}
	if opts.Format != "png" && opts.Format != "jpeg" {
		return none, browserhost.Errorf(browserhost.CodeInputInvalid, "format: is not one of png, jpeg").With("field", "format")
	}
	ctx, cancel := context.WithTimeout(ctx, shotTime)
	defer cancel()
	if err := p.usable(ctx); err != nil {
		return none, p.shown(err, "")
	}
	area, err := p.area(ctx, opts.FullPage)
	if err != nil {
		return none, p.shown(err, "")
	}
	im, err := p.shoot(ctx, opts, area)
	return im, p.shown(err, "")
}

// area is the part of the document to take, in CSS pixels, scaled so that both
// sides are within the bound.
func (p *page) area(ctx context.Context, whole bool) (pagecmd.Viewport, error) {
	v, err := p.ask(ctx, cmd(pagecmd.GetLayoutMetrics, none))
	if err != nil {
		return pagecmd.Viewport{}, err
	}
	m, err := decode[pagecmd.GetLayoutMetricsResult](pagecmd.CommandGetLayoutMetrics, v)
	if err != nil {
		return pagecmd.Viewport{}, err
	}
	a := pagecmd.Viewport{Width: viewWidth, Height: viewHeight, Scale: 1}
	switch {
	case whole && m.CSSContentSize != nil:
		a.Width, a.Height = m.CSSContentSize.Width, m.CSSContentSize.Height
	case m.CSSVisualViewport != nil:
		a.X, a.Y = m.CSSVisualViewport.PageX, m.CSSVisualViewport.PageY
		a.Width, a.Height = m.CSSVisualViewport.ClientWidth, m.CSSVisualViewport.ClientHeight
	}
	a.Width, a.Height = math.Max(a.Width, 1), math.Max(a.Height, 1)
	a.Scale = math.Min(1, browserhost.MaxImageSide/math.Max(a.Width, a.Height))
	return a, nil
}

// shoot takes pictures of an area, each smaller than the one before, until one
// is within the bounds.
func (p *page) shoot(ctx context.Context, opts browserhost.ScreenshotOptions, area pagecmd.Viewport) (browserhost.Image, error) {
	var none browserhost.Image
	params := pagecmd.CaptureScreenshotParams{
		Format:                pagecmd.CaptureScreenshotFormat(opts.Format),
		Clip:                  &area,
		CaptureBeyondViewport: new(opts.FullPage),
		OptimizeForSpeed:      new(true), // larger, and several times as quick
	}
	if opts.Format == "jpeg" {
		params.Quality = new(int64(jpegQuality))
	}
	for {
		v, err := p.ask(ctx, cmd(pagecmd.CaptureScreenshot, params))
		if err != nil {
			return none, err
		}
		// The picture itself is the only thing in the answer (K39).
		r, err := decode[struct {
			Data []byte `json:"data"`
		}](pagecmd.CommandCaptureScreenshot, v)
		if err != nil {
			return none, err
		}
		size, _, err := image.DecodeConfig(bytes.NewReader(r.Data))
		if err != nil {
			return none, err
		}
		if len(r.Data) <= browserhost.MaxImageBytes && size.Width <= browserhost.MaxImageSide && size.Height <= browserhost.MaxImageSide {
			return browserhost.Image{MIME: "image/" + opts.Format, Width: size.Width, Height: size.Height, Data: r.Data}, nil
		}
		if *params.OptimizeForSpeed && len(r.Data) <= 2*browserhost.MaxImageBytes && size.Width <= browserhost.MaxImageSide && size.Height <= browserhost.MaxImageSide {
			params.OptimizeForSpeed = new(false)
			continue
		}
		if area.Scale <= minScale {
			return none, browserhost.Errorf(browserhost.CodeInputInvalid, "the picture is too large: %d by %d pixels, %d bytes", size.Width, size.Height, len(r.Data)).
				With("width", size.Width).With("height", size.Height).With("bytes", len(r.Data))
		}
		area.Scale = smaller(area.Scale, len(r.Data), size)
	}
}

// smaller is the next scale to try: what should fit, and a little less.
func smaller(scale float64, size int, sides image.Config) float64 {
	by := math.Sqrt(float64(browserhost.MaxImageBytes)/float64(size)) * 0.9
	by = min(by, float64(browserhost.MaxImageSide)/float64(max(sides.Width, sides.Height)), 0.9)
	return max(scale*by, minScale)
}
